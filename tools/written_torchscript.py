"""Makes the cases of tests/data/written: PyTorch runs archives of TorchScript that fx wrote.

For each NAME.fx of the folder it makes NAME.safetensors (random tensors for the paths that the text reads), lets
`fx export --torchscript` write NAME.pt, and runs that with PyTorch on random inputs. NAME.json and
NAME.io.safetensors hold what came of it, as `fx check` reads them.

usage: written_torchscript.py FX FOLDER   (FX is the command line of fx)
"""
import glob, json, os, re, subprocess, sys

import torch
from safetensors.torch import save_file

DTYPES = {"f32": torch.float32, "i64": torch.int64}
VALUE = r"%(\w+): (\w+)\[([^\]]*)\]"


def random(name, dtype, sizes, sizes_of_symbols):
    shape = [sizes_of_symbols.get(size) or int(size) for size in re.split(r",\s*", sizes) if size]
    if dtype == "i64":
        return torch.randint(0, 4, shape)
    # A variance is positive.
    return torch.rand(shape) + 0.5 if name.endswith("var") else torch.randn(shape)


def weights(text):
    read = re.findall(VALUE + r" = self\.([\w.]+)", text)
    return {path: random(path, dtype, sizes, {}) for _, dtype, sizes, path in read}


def encode(value, prefix, tensors):
    if isinstance(value, torch.Tensor):
        name = f"{prefix}{sum(key.startswith(prefix) for key in tensors)}"
        tensors[name] = value.detach().clone().contiguous()
        return {"tensor": name}
    kind = "tuple" if isinstance(value, tuple) else "list"
    return {kind: [encode(item, prefix, tensors) for item in value]}


def main():
    fx, folder = sys.argv[1:]
    for path in sorted(glob.glob(f"{folder}/*.fx")):
        stem = path[:-3]
        text = open(path).read()
        torch.manual_seed(0)
        parameters = weights(text)
        options = []
        if parameters:
            save_file(parameters, f"{stem}.safetensors")
            options = ["--weights", f"{stem}.safetensors"]
        subprocess.run([fx, "export", path, *options, "--torchscript", f"{stem}.pt"], check=True)
        inputs = re.findall(VALUE, text.split("->")[0])
        tensors, sets = {}, []
        for number, n in enumerate([3, 5]):
            module, calls = torch.jit.load(f"{stem}.pt"), []
            before = {name: buffer.clone() for name, buffer in module.named_buffers()}
            for call in range(2):
                args = [random(name, dtype, sizes, {"n": n}) for name, dtype, sizes in inputs]
                prefix = f"{number}.{call}."
                given = [encode(arg, prefix + "in", tensors) for arg in args]
                with torch.no_grad():
                    result = module(*args)
                result = encode(result, prefix + "out", tensors)
                calls.append({"method": "forward", "args": given, "result": result})
            changed = {
                name: encode(buffer, f"{number}.state.{name}.", tensors)
                for name, buffer in module.named_buffers()
                if not torch.equal(buffer, before[name])
            }
            sets.append({"calls": calls, "buffers_after": changed})
        save_file(tensors, f"{stem}.io.safetensors")
        case = {"made_by": "fx", "torch": torch.__version__, "sets": sets}
        with open(f"{stem}.json", "w") as file:
            json.dump(case, file, indent=1)
            file.write("\n")
        print(os.path.basename(stem), len(tensors), "tensors")


if __name__ == "__main__":
    main()
