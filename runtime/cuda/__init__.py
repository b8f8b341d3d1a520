"""Running kernels on NVIDIA GPUs through the CUDA driver. Nothing is loaded by importing this package; the files are

    driver      the one place that imports `cuda.bindings`; `gpu_available()`, `unavailable_reason()`
    errors      CudaUnavailable, CudaError, CudaOutOfMemory, CudaContextLost, CudaRefused, CudaTimeout
    device      a device and its primary context (shared with PyTorch and CuPy); properties: what it is and can hold
    stream      streams and events; waiting with time limits
    memory      the pool of device memory; host: pinned and registered memory; copies: between them
    module      images loaded by content, kernels; arguments, launch: calling them; graph: sequences recorded
    array       arrays on a device; interop: in and out without a copy (`runtime.dlpack` has the structures)
    gpu         all of it for one device: `gpu(0)`

    found = gpu(0)
    kernel = found.modules.load(cubin).kernel("saxpy")
    launch = LaunchPlan(kernel, ("pointer", "pointer", "f32", "i64"), grid=(blocks,), block=(256,), where="blas.zynml:7")
    launch(found.stream, y, x, 2.0, n)

A copy or launch is queued and returns; `stream.synchronize()` waits, and is where a kernel's fault is reported, by its name. A buffer
used on another stream than its own is waited for when it is dropped; who shares data between streams orders them with `wait`."""
