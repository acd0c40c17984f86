"""What other tools can do beside nbsal, as short probes that run against the installed version of each tool."""
