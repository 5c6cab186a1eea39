"""Speed, measured as ratios within one run on one CPU: ``python -m tests.bench [NAME …]``; not collected by pytest."""
