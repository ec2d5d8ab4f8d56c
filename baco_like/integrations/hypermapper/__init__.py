"""The client-server protocol and files of HyperMapper and BaCO."""
