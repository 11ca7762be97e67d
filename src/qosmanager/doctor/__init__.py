"""What `qosmanager doctor` says: pure judgements over probed data. Probing stands in linux/, asking the agent in http/client."""
