import json


class NVRTCError(RuntimeError):
    pass


def getVersion():
    return 12, 6


def createProgram(source, name, headers, include_names):
    return {"log": "", "source": source}


def addNameExpression(program, name):
    program["symbol"] = f"mangled {name}"


def compileProgram(program, options):
    words = dict(o[2:].split("=") for o in options if o.startswith("-D"))
    if "-arch=sm_90" not in options:
        program["log"] = "nvrtc: error: invalid value for --gpu-architecture\n\0"
        raise NVRTCError("NVRTC_ERROR_INVALID_OPTION (5)")
    if words.get("fault") == "1":
        program["log"] = 'kernel.cu(1): error: identifier "x" is undefined\n\0'
        raise NVRTCError("NVRTC_ERROR_COMPILATION (6)")
    program["macros"] = {name: text for name, text in words.items() if name in program["source"]}


def getProgramLog(program):
    return program["log"]


def getCUBIN(program):
    told = {"symbol": program["symbol"], "macros": program["macros"]}
    return json.dumps(told).encode()


def getLoweredName(program, name):
    return f"mangled {name}"


def destroyProgram(program):
    program.clear()
