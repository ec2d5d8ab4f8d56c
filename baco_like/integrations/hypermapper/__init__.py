"""HyperMapper and BaCO: their client-server protocol, scenarios and files of samples."""
