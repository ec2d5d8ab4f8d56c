"""The kernels of test_worker_bench, which have every fault that kernels may have."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from baco_like.evaluators.comparison import Expected
from baco_like.evaluators.kernels.arguments import Argument, Arguments, HostBlock
from baco_like.evaluators.kernels.timing import CompiledKernel, KernelLimits, KernelServer

EXPECTED = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)


def make_arguments(factor=2):
    """Return an input and its copy, with three values."""
    draws = [
        [
            Argument("argument 0", values, values, None, "input", seed),
            Argument("argument 1", values, None, Expected(values), "output"),
        ]
        for seed, values in ((0, EXPECTED), (7, factor * EXPECTED), (8, factor**2 * EXPECTED))
    ]
    return Arguments(draws, HostBlock, "auto")


def serve(settings):
    state = {"corrupted": False, "arguments": make_arguments()}
    server = KernelServer(
        lambda config: compile_kernel(config, state), KernelLimits(**settings["limits"])
    )

    def handle(request, report):
        state["report"] = report  # a hostile kernel would find the pipe and the number by itself
        return server(request, report)

    return handle


def compile_kernel(config, state):
    if config["fault"] == "compile":
        raise SyntaxError("no such word")
    if config["fault"] == "compiler crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if config["fault"] == "compiler hang":
        time.sleep(60)
    return Double(config, state)


class Double(CompiledKernel):
    """Reports ``seconds`` as its time; a fault happens in run number ``at``, 0 being the first launch."""

    is_on_host = False  # the load of this machine does not matter

    def __init__(self, config, state):
        self.config, self.state, self.runs = config, state, 0
        self.arguments, self.identity = state["arguments"], config["program"]

    def time(self, launches, limit):
        number, self.runs = self.runs, self.runs + 1
        if self.config["log"]:
            with Path(self.config["log"]).open("a") as log:
                log.write("run\n")
        if number >= self.config["at"]:
            self.misbehave(self.config["fault"])
        values, output = (block.array.view(np.float32) for block in self.arguments.blocks)
        if self.config["fault"] == "keep":
            self.kept = getattr(self, "kept", values.copy())
            output[:] = self.kept
        elif self.config["fault"] == "known":
            output[:] = EXPECTED.reshape(-1)
        elif self.config["fault"] != "silent" or number < self.config["at"]:
            is_wrong = self.state["corrupted"] and self.config["fault"] != "corrupt"
            output[:] = values + is_wrong
        if self.config["fault"] == "wrong" and number >= self.config["at"]:
            output += np.float32(0.5)
        if self.config["fault"] == "nan":
            output[2] = np.nan
        return self.config["seconds"]

    def misbehave(self, fault):
        if fault == "crash" or (fault == "victim" and self.state["corrupted"]):
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "exit":
            os._exit(3)
        if fault == "launch":
            raise RuntimeError("out of resources")
        if fault == "hang":
            time.sleep(60)
        if fault == "forge":
            for message in self.config["messages"]:
                self.state["report"].send(message)
        if fault == "corrupt":
            self.state["corrupted"] = True
