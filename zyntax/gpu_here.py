"""What commands that need a GPU ask first."""


def require_gpu(wish: str, hint: str) -> None:
    """Raises ZyntaxError (0501), saying why, where no CUDA device can be used."""
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from runtime.cuda.driver import unavailable_reason

    reason = unavailable_reason()
    if reason is not None:
        raise ZyntaxError(Diagnostic("0501", f"{wish}, and there is none: {reason}", hint=hint))
