package main

import (
	"errors"
	"log/slog"
	"os"

	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectl is what the main function of cmd/kubectl does.
func kubectl() {
	// Verbosity has to be known before the command is constructed, because
	// finding plugins and reading .kuberc already log.
	_, _ = logs.GlogSetter(kubectlcmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

// helm is what the main function of helm's cmd/helm does.
func helm() {
	// The name in managedFields must not depend on what this binary is called.
	kube.ManagedFieldsManager = "helm"

	command, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err != nil {
		slog.Warn("command failed", slog.Any("error", err))
		os.Exit(1)
	}
	if err := command.Execute(); err != nil {
		if failed, ok := errors.AsType[helmcmd.CommandError](err); ok {
			os.Exit(failed.ExitCode)
		}
		os.Exit(1)
	}
}
