"""What is wrapped of Python and PyTorch because no dispatcher shows it."""
