"""Ask/tell algorithms: frozen recipes whose state is a fold over observations."""
