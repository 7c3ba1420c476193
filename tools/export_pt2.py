#!/usr/bin/env python3
"""Exports a module so that `fx check` can compare: NAME.pt2 and NAME.io.safetensors.

    tools/export_pt2.py net.py:factory [NAME] [--out DIR] [--decompose] [--train]

`factory(i)` (or `factory()`) returns `(module, args)`, `(module, args, kwargs)` or `(module, args, kwargs, dynamic_shapes)`
with example inputs of input set i, 0 or 1; where shapes are dynamic, give set 1 other sizes. The module of set 0 is exported;
`--decompose` writes core ATen, `--train` leaves the module in training mode. Inputs and outputs are stored leaf by leaf, in
the order of PyTorch's pytrees: tensors, and int, float and bool inputs that are dynamic, as tensors of rank 0; complex ones
as `torch.view_as_real` gives them.
"""
import argparse
import copy
import importlib.util
import inspect
import pathlib

import torch
from safetensors.torch import save_file
from torch.utils import _pytree as pytree


def example(factory, i):
    parts = tuple(factory(i) if inspect.signature(factory).parameters else factory())
    return parts + ((), {}, None)[len(parts) - 1:]


def tensors(prefix, leaves):
    leaves = [leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in leaves]
    leaves = [torch.view_as_real(leaf.resolve_conj()) if leaf.is_complex() else leaf for leaf in leaves]
    return {f"{prefix}{n}": leaf.detach().resolve_neg().clone().contiguous() for n, leaf in enumerate(leaves)}


def inputs(program, args, kwargs):
    """The leaves that the program takes: constants to which it was specialised are left out."""
    leaves = pytree.tree_leaves((args, kwargs))
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    dynamic = lambda arg: type(arg).__name__ in ("TensorArgument", "SymIntArgument", "SymFloatArgument", "SymBoolArgument")
    return [leaf for leaf, spec in zip(leaves, specs, strict=True) if dynamic(spec.arg)]


def outputs(result):
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, (torch.Tensor, int, float, bool))]


def export(factory, name, out=".", decompose=False, train=False, strict=False):
    """Writes the two files; returns the exported program."""
    module, args, kwargs, dynamic_shapes = example(factory, 0)
    module = module.train() if train else module.eval()
    with torch.no_grad():
        state = copy.deepcopy((args, kwargs))
        program = torch.export.export(module, *state, dynamic_shapes=dynamic_shapes, strict=strict)
        if decompose:
            program = program.run_decompositions()
        out = pathlib.Path(out)
        # Before it is called, which updates its buffers.
        torch.export.save(program, out / f"{name}.pt2")
        stored = {}
        for i in range(2):
            _, args, kwargs, _ = example(factory, i)
            stored |= tensors(f"{i}.in", inputs(program, args, kwargs))
            result = copy.deepcopy(module)(*copy.deepcopy(args), **copy.deepcopy(kwargs))
            stored |= tensors(f"{i}.out", outputs(result))
        # A program that was specialised to the sizes of set 0 refuses those of set 1 here. It shares buffers with the module.
        program.module()(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        save_file(stored, out / f"{name}.io.safetensors")
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("factory", help="file.py:factory")
    parser.add_argument("name", nargs="?", help="NAME of the files; that of the factory if it is not given")
    parser.add_argument("--out", default=".", help="the folder to write to")
    parser.add_argument("--decompose", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args()
    pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    path, _, factory = options.factory.partition(":")
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    export(getattr(loaded, factory), options.name or factory, options.out, options.decompose, options.train, options.strict)


if __name__ == "__main__":
    main()
