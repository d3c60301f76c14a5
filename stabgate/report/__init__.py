"""What people read: each report is a function of results and verdicts and computes no score."""
