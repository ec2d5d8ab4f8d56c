"""The kernels of test_worker_bench, which have every fault that kernels may have."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from baco_like.evaluators.kernels.timing import KernelLimits, KernelServer, poison

EXPECTED = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)


def serve(settings):
    state = {"corrupted": False}
    server = KernelServer(
        lambda config: compile_kernel(config, state), EXPECTED, KernelLimits(**settings)
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


class Double:
    """Reports ``seconds`` as its time; a fault happens in run number ``at``, 0 being the first launch."""

    def __init__(self, config, state):
        self.config, self.state, self.runs = config, state, 0
        self.output = np.empty_like(EXPECTED)
        self.identity = config["program"]

    def prepare(self):
        poison(self.output)

    def run(self):
        number, self.runs = self.runs, self.runs + 1
        if self.config["log"]:
            with Path(self.config["log"]).open("a") as log:
                log.write("run\n")
        if number >= self.config["at"]:
            self.misbehave(self.config["fault"])
        if self.config["fault"] != "silent":
            self.output[...] = EXPECTED + self.state["corrupted"]
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

    def result(self):
        fault, late = self.config["fault"], self.runs > self.config["at"]
        if fault == "corrupt":
            return EXPECTED
        if fault == "wrong" and late:
            return self.output + np.float32(0.5)
        if fault == "nan" and late:
            return np.where(EXPECTED == 3, np.nan, self.output)
        return self.output
