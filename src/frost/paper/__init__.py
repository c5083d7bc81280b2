"""The reproduction: every section of the paper measured, judged and drawn beside the paper's numbers.

    sections/                    one file a section: claim, the paper's numbers, units, checks, drawing
    measurements/                what several sections measure of a model; functions of tensors (5), (26)–(41)
    section, units, sizes        what a section is; what is trained and measured for it; smoke, cpu, paper
    reproduction, report         plan, do, resume and judge; results.json, figures and report.html
    intervals, checks            numbers with intervals; what may be asked of them
    abstract, one_run            sentences of abstract and conclusion; `frost analyze`

No section imports another.
"""
