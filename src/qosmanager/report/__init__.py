"""One HTML page of one or more runs, that opens offline. Needs the extra `report` (plotly); nothing here is part of the agent."""
