"""Who computes on a device, as the driver of NVIDIA's devices tells."""

from __future__ import annotations

import anyio

from chaos.errors import Unsupported

ANSWERS_WITHIN = 20.0  # seconds; a sick driver hangs


async def processes(index: int) -> tuple[str, tuple[int, ...]]:
    """The device's own id, and the processes on it as the host knows them; Unsupported with the reason."""
    with anyio.move_on_after(ANSWERS_WITHIN):
        return await anyio.to_thread.run_sync(_processes, index, abandon_on_cancel=True)
    raise Unsupported(f"the driver of device {index} does not answer within {ANSWERS_WITHIN:g} s")


def _processes(index: int) -> tuple[str, tuple[int, ...]]:
    try:
        import pynvml
    except ImportError as error:
        raise Unsupported("NVML cannot be asked: pip install 'mlchaos[gpu]'") from error
    try:
        pynvml.nvmlInit()
        try:
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            running = (
                *pynvml.nvmlDeviceGetComputeRunningProcesses(device),
                *pynvml.nvmlDeviceGetGraphicsRunningProcesses(device),
            )
            return str(pynvml.nvmlDeviceGetUUID(device)), tuple(dict.fromkeys(process.pid for process in running))
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise Unsupported(f"NVML does not know device {index}: {error}") from error
