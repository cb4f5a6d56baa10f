# Targets for the local cluster; included by the top-level Makefile. dev/README.md describes them.
LOCALCLUSTER = PYTHONPATH=dev $(or $(PYTHON),python3) -m localcluster

.PHONY: cluster-prepare cluster-up cluster-down cluster-status cluster-logs kafka-up kafka-down images

cluster-prepare: ## download and build what the cluster needs (minutes on a fresh machine)
	@$(LOCALCLUSTER) prepare

cluster-up: ## start Kubernetes and Kafka on this machine
	@$(LOCALCLUSTER) up

cluster-down: ## stop Kubernetes and Kafka (PURGE=1 deletes their state)
	@$(LOCALCLUSTER) down $(if $(PURGE),--purge)

cluster-status: ## list the cluster's processes
	@$(LOCALCLUSTER) status

cluster-logs: ## print the last lines of the logs (LOG="kubelet kafka" selects logs)
	@$(LOCALCLUSTER) logs $(LOG)

kafka-up: ## start Kafka alone, without root
	@$(LOCALCLUSTER) kafka-up

kafka-down: ## stop Kafka alone
	@$(LOCALCLUSTER) kafka-down

images: ## build the container images and load them into the cluster (S3=1: that for state in an object store, too)
	@$(LOCALCLUSTER) images $(if $(S3),--s3)
