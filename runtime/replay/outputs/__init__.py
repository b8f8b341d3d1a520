"""What a replay leaves behind: tables, a summary, a report with charts. From records in memory to a folder of files."""
