"""The functions of `cupy.cuda.nvrtc` by ctypes, for tests without CuPy: NVRTC alone is a small package."""

import ctypes
import importlib.util
from pathlib import Path


class NVRTCError(RuntimeError):
    pass


def _opened():
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for file in sorted(Path(folder).glob("cuda_nvrtc/lib/libnvrtc.so.*")):
            if not file.name.endswith(".alt"):
                return ctypes.CDLL(str(file))
    return None


LIBRARY = _opened()


def _call(name, *arguments):
    code = getattr(LIBRARY, f"nvrtc{name}")(*arguments)
    if code:
        LIBRARY.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise NVRTCError(f"{LIBRARY.nvrtcGetErrorString(code).decode()} ({code})")


def _bytes(name, program):
    size = ctypes.c_size_t()
    _call(f"Get{name}Size", program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    _call(f"Get{name}", program, text)
    return text.raw


def getVersion():
    major, minor = ctypes.c_int(), ctypes.c_int()
    _call("Version", ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def createProgram(source, name, headers, include_names):
    program = ctypes.c_void_p()
    none = (ctypes.c_char_p * 0)()
    _call("CreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, none, none)
    return program


def addNameExpression(program, name):
    _call("AddNameExpression", program, name.encode())


def compileProgram(program, options):
    texts = [option.encode() for option in options]
    _call("CompileProgram", program, len(texts), (ctypes.c_char_p * len(texts))(*texts))


def getProgramLog(program):
    return _bytes("ProgramLog", program).decode()


def getCUBIN(program):
    return _bytes("CUBIN", program)


def getLoweredName(program, name):
    lowered = ctypes.c_char_p()
    _call("GetLoweredName", program, name.encode(), ctypes.byref(lowered))
    return lowered.value.decode()


def destroyProgram(program):
    _call("DestroyProgram", ctypes.byref(program))
