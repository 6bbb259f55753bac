"""`rebalancer run`: the service, until SIGTERM."""

from rebalancer.cli.failure import DONE, FAILED, Failed


def command() -> int:
    """Run the service; settings come from environment variables REBALANCER_..., see docs. SIGTERM ends it in order."""
    import uvloop

    from rebalancer.obs import log
    from rebalancer.settings.service import BadSettings, read_settings

    try:
        settings = read_settings()
        if settings.kafka_enabled:
            settings.kafka_password()  # away at the start it is a wrong path; later on it is waited for
    except BadSettings as wrong:
        raise Failed(str(wrong)) from wrong
    lines = log.configure(settings.log_level, settings.log_format)
    from rebalancer.app.process import serve

    try:
        why = uvloop.run(serve(settings))
    finally:
        lines.flush()
    if why is None:
        return DONE
    raise Failed(why, FAILED)
