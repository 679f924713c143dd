"""The report of a trace: one HTML file that shows where a job's memory and time go.

`places` notes, in a job with a trace, where operators are called. The others make the page:
`trace_reader` reads the trace, `history` has tidepool-replay run it under a budget and reads what
was done, `views` makes of both what a span of time shows, `pins` what stays and why, and `page`
writes the file. `command` is `tidepool report`.
"""
