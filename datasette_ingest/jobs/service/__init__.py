"""What a person or a program may do with jobs: check, preview, test, start, steer, find and read them."""
