"""Writes the order of functions that the linker gives the program fx: those first that programs enter.

    cargo build --release
    python3 tools/order.py target/release/fx src/bin/fx/order.txt FOLDER...

A folder has a case of the benchmarks beside other engines (model.pt2, io.safetensors; see tools/more_cases.py). Each is loaded and
run by `fx bench --worker`, with both engines. A breakpoint on each function tells which are entered. The functions of most cases
come first, and among those the ones that are entered first: that way what a program needs lies side by side, a few pages of the
file instead of many. build.rs gives the order to the linker. Names have hashes, of compiler, dependencies and types, and those of
functions that became local to a module one of all that is in it, for which a * is written here. Functions that are not in the list
stay where they are, so an old order does no harm; after changes of the compiler, of dependencies or of much code a new one pays.

Needs Linux on x86-64, and nm.
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import tempfile

TRACEME, CONT, GETREGS, SETREGS, SETOPTIONS = 0, 7, 12, 13, 0x4200
TRACE_CLONE, EXIT_KILL, WAIT_ALL = 0x8, 0x100000, 0x40000000
REGISTERS = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs"


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in REGISTERS.split()]


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def functions(program):
    """Returns the names of the functions of a program by their addresses in it."""
    lines = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout.splitlines()
    named = {}
    for line in lines:
        address, kind, name = line.split()
        if kind in "tTwW":
            named.setdefault(int(address, 16), re.sub(r"\.llvm\.\d+$", ".llvm.*", name))
    return named


def entered(program, arguments, text, environment):
    """Runs a program on a text; returns the names of its functions in the order in which they are first entered."""
    named = functions(program)
    with tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        child = os.fork()
        if child == 0:
            os.dup2(given.fileno(), 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            libc.ptrace(TRACEME, 0, None, None)
            os.execve(program, [program, *arguments], environment)
    os.waitpid(child, 0)
    libc.ptrace(SETOPTIONS, child, None, TRACE_CLONE | EXIT_KILL)
    with open(f"/proc/{child}/maps") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(program))
    memory = os.open(f"/proc/{child}/mem", os.O_RDWR)
    replaced = {base + address: os.pread(memory, 1, base + address) for address in named}
    for address in replaced:
        os.pwrite(memory, b"\xcc", address)
    order = {}
    libc.ptrace(CONT, child, None, None)
    while True:
        thread, status = os.waitpid(-1, WAIT_ALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            if thread == child:
                break
            continue
        stopped, passed_on = os.WSTOPSIG(status), 0
        if stopped == signal.SIGTRAP and status >> 16 == 0:
            registers = Registers()
            libc.ptrace(GETREGS, thread, None, ctypes.byref(registers))
            address = registers.rip - 1
            if address in replaced:
                # Another thread may have been here at the same time.
                if address not in order:
                    order[address] = named[address - base]
                    os.pwrite(memory, replaced[address], address)
                registers.rip = address
                libc.ptrace(SETREGS, thread, None, ctypes.byref(registers))
        elif stopped not in (signal.SIGTRAP, signal.SIGSTOP):
            passed_on = stopped
        libc.ptrace(CONT, thread, None, passed_on)
    os.close(memory)
    if not os.WIFEXITED(status) or os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"{program} {' '.join(arguments)} failed on {text!r}")
    return list(order.values())


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    program, out, folders = os.path.realpath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    environment = dict(os.environ, BENCH_THREADS="2", RAYON_NUM_THREADS="2")
    counts, first = {}, {}
    for folder in folders:
        name = os.path.basename(os.path.normpath(folder))
        text = f"load {name} {os.path.realpath(folder)}\ntime 3 1000000 1000000\nrss\nquit\n"
        names = {}
        for engine in ("fused", "native"):
            names.update(dict.fromkeys(entered(program, ["bench", "--worker", "--engine", engine], text, environment)))
        print(f"{name}: {len(names)} functions", flush=True)
        for name in names:
            counts[name] = counts.get(name, 0) + 1
            first.setdefault(name, len(first))
    with open(out, "w") as file:
        for name in sorted(counts, key=lambda name: (-counts[name], first[name])):
            print(name, file=file)


main()
