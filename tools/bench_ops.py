"""Times PyTorch's side of `cargo bench --bench ops`, which starts this with FX_PYTHON and talks to it line by line.

`threads N`       sets the number of threads
`version`         answers PyTorch's version
`case JSON`       makes the operands of a case and calls it once; answers `ok`, or `error` with the reason
`run N`           calls it N times; answers the nanoseconds that all calls took
"""

import json
import re
import sys
import time

import torch
import torch.nn.functional as F

DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "u8": torch.uint8, "i8": torch.int8, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool,
}
SPEC = re.compile(r"(\w+)\[([\d,]*)\](\.T)?(?: (perm|sorted|spd|(-?[\d.]+)\.\.(-?[\d.]+)))?$")


def tensor(dtype, shape, transposed, how, low, high):
    shape = [int(size) for size in shape.split(",") if size]
    if transposed:
        shape[-2:] = shape[:-3:-1]
    dtype = DTYPES[dtype]
    if how == "perm":
        x = torch.randperm(shape[0])
    elif dtype == torch.bool:
        x = torch.rand(shape) < 0.5
    elif dtype.is_floating_point:
        low, high = float(low or -2), float(high or 2)
        x = torch.rand(shape) * (high - low) + low
    else:
        x = torch.randint(int(low or 0), int(high or 100), shape)
    if how == "spd":
        x = x + x.mT + 8 * shape[-1] * torch.eye(shape[-1])
    x = x.to(dtype)
    if how == "sorted":
        x = x.sort().values
    return x.transpose(-1, -2) if transposed else x


def value(arg):
    if isinstance(arg, list):
        return [value(item) for item in arg]
    if isinstance(arg, str):
        if arg in DTYPES:
            return DTYPES[arg]
        found = SPEC.match(arg)
        if found:
            return tensor(*found.groups())
    return arg


def function(row, text):
    if text:
        return eval(text, {"torch": torch, "F": F, "aten": torch.ops.aten})
    for place in (torch, F, torch.Tensor, torch.ops.aten):
        if hasattr(place, row):
            return getattr(place, row)
    raise AttributeError(f"PyTorch has no {row}")


def main():
    call = lambda: None
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command == "threads":
            torch.set_num_threads(int(rest))
            answer = "ok"
        elif command == "version":
            answer = torch.__version__
        elif command == "case":
            try:
                case = json.loads(rest)
                f = function(case["row"], case["torch"])
                args = [value(arg) for arg in case["args"]]
                kwargs = {key: value(arg) for key, arg in case["kwargs"].items()}
                call = lambda: f(*args, **kwargs)
                call()
                answer = "ok"
            except Exception as error:
                answer = f"error {type(error).__name__}: {error}".replace("\n", " ")
        else:
            start = time.perf_counter_ns()
            for _ in range(int(rest)):
                call()
            answer = str(time.perf_counter_ns() - start)
        print(answer, flush=True)


with torch.inference_mode():
    main()
