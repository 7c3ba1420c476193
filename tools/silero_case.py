"""Makes the case of silero_vad as its authors ship it: 30 windows at both sampling rates, the state kept between calls.

usage: silero_case.py ARCHIVE SPEECH OUT   (`silero_vad.jit` of the package silero-vad; the `io.safetensors` of
examples/data/silero_vad, which has speech; the path of the case without its ending)
"""
import json
import sys

import torch
from safetensors.torch import load_file, save_file

archive, speech, out = sys.argv[1:]
torch.set_num_threads(1)
windows = load_file(speech)["windows"][:, 64:]
tensors, sets = {}, []
for s, (rate, size) in enumerate([(16000, 512), (8000, 256)]):
    model = torch.jit.load(archive).eval()
    sound = windows.reshape(-1)
    start = 100 * 512
    sound = sound[start:][:: 16000 // rate]
    calls = []
    with torch.no_grad():
        for c in range(30):
            x = sound[c * size:(c + 1) * size].clone().reshape(1, -1)
            name = f"{s}.{c}"
            y = model(x, rate)
            tensors[f"{name}.in0"], tensors[f"{name}.out0"] = x, y
            calls.append({"method": "forward", "args": [{"tensor": f"{name}.in0"}, {"int": rate}],
                          "result": {"tensor": f"{name}.out0"}})
    sets.append({"calls": calls, "buffers_after": {}})
case = {"made_by": "as shipped", "torch": torch.__version__, "features": "silero_vad 6.2.3: speech detection with state, at 16 and 8 kHz", "plain": False, "sets": sets}
json.dump(case, open(out + ".json", "w"))
save_file(tensors, out + ".io.safetensors")
