"""Running a stock model, recording its values, and leaving it as it was."""
