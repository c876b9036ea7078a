"""What is measured for the papers: functions whose results are kept (see ``jobs.py``)."""
