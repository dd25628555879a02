"""The HTTP room: translates between callers and domains. No SQL and no rules here.

edge      what every request passes first: host, load, trace, last resort for errors
protocol  below that: limits on raw bytes
guard     what a route declares (who may, what it takes) and that it is kept
errors    one envelope for every refusal
bodies    JSON, strictly
app       the factory: refuses to start with a route that declares nothing
"""
