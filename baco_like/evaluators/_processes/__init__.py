"""Other processes: started with limits, talked to, and ended with all that they leave behind.

Importing this package costs nothing: what runs in a worker (`worker_main`) is imported through it.
"""
