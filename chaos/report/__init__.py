"""What a run shows: the console while it runs, then the summary, `verdict.json`, JUnit and a page to read.

lines     one event as one line of plain text             console   live board or plain lines, fed by events
board     who stands where, kept up to date by events     summary   the text at the end
lanes     what each member went through                   junit     one test case a check
curves    series, thinned without losing an extreme       page      one self-contained HTML file
files     writes the folder's files
"""
