import os


class CUDARuntimeError(RuntimeError):
    pass


def getDeviceCount():
    if os.environ.get("FAKE_CAPABILITY") == "none":
        raise CUDARuntimeError("cudaErrorInsufficientDriver: no driver")
    return 1
