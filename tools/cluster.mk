# Targets for the local cluster; included by the top-level Makefile. What they do is in tools/README.md.
LOCALCLUSTER = PYTHONPATH=tools $(or $(PYTHON),python3) -m localcluster

.PHONY: cluster-prepare cluster-up cluster-down cluster-status cluster-logs kafka-up kafka-down images

cluster-prepare: ## Fetch and build what they need, minutes on a fresh machine
	@$(LOCALCLUSTER) prepare

cluster-up: ## Start Kubernetes and Kafka on this machine
	@$(LOCALCLUSTER) up

cluster-down: ## Stop them; PURGE=1 deletes their state too
	@$(LOCALCLUSTER) down $(if $(PURGE),--purge)

cluster-status: ## Tell what runs
	@$(LOCALCLUSTER) status

cluster-logs: ## Show the last lines of the logs; LOG="kubelet kafka" for some of them
	@$(LOCALCLUSTER) logs $(LOG)

kafka-up: ## Start Kafka alone, which needs no root
	@$(LOCALCLUSTER) kafka-up

kafka-down: ## Stop Kafka alone
	@$(LOCALCLUSTER) kafka-down

images: ## Build the container images and load them into the cluster
	@$(LOCALCLUSTER) images
