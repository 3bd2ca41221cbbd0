"""Game days that run by themselves: what is planned, the dice, the state that survives a kill, and the day itself.

`terms` what a plan says · `agenda` the dice · `timetable` when · `store` what is known, durably · `children` the runs
of experiments · `desk` orders from other terminals · `day` one day · `service` from day to day · `story` the report.
"""
