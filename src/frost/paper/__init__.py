"""The reproduction: one file for each section of the paper, with its claim, numbers, units, checks and drawing.

    section, units, sizes        what a section is; what is trained and measured for it; smoke, cpu, paper
    reproduction, report         plan, do, resume and judge; results.json, figures and report.html
    intervals, checks            numbers with intervals; what may be asked of them
    outcome                      what is measured of every trained unit
    geometry, contraction, equal_depth         measurements that several sections share
    consistency, path_dimension, curves, stability    the analyses themselves: functions of tensors (5), (26)–(41)
    abstract, one_run            sentences of abstract and conclusion; `frost analyze`

Every other file is a section; no section imports another.
"""
