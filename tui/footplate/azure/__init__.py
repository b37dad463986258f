"""The workspace on Azure ML: the contract, answered by raw reads through azure-core's pipeline."""
