"""What a person or a program may ask of the job engine."""
