"""What a run shows: the console while it runs, then the summary, `verdict.json`, JUnit and a page to read.

lines     one event as one line of plain text             console   live board or plain lines, fed by events
board     who stands where, kept up to date by events     summary   the text at the end
lanes     what each member went through                   junit     one test case a check
curves    series, thinned without losing an extreme       record    `verdict.json`
files     writes the folder's files                       page      one self-contained HTML file

The page and its kin: `story` and `phrases` are its first screen in words, `episodes` its bars, `picture` the data that
its script draws, `drawing` and `charts` the same on paper and without script; `compare`, `repeats` and `index` are
pages over more than one run. `render` puts values, a template and the files of `assets/` together: hand-written
scripts, a concern a file, joined in one scope in the order that the page names; a browser runs these and no others.
"""
