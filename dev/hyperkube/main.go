// Command hyperkube is every program of the local test cluster in one binary.
//
// Linking etcd, the Kubernetes components, kubectl and helm together shares the
// compilation of their common packages, which is what makes building a cluster
// from nothing affordable on a small machine. Which program runs is decided by
// the name the binary is called with (a symbolic link named kubectl runs
// kubectl), or else by its first argument.
//
// It is built and installed by `dev/localcluster`.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs name time zones, and the machine may lack the database.

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plugins of kubectl and helm
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps each program's name to what runs it; a program ends the process
// with its own exit code, or returns for success. os.Args starts at its name.
var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              component(proxy.NewProxyCommand),
	"kubelet":                 component(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kube-router":             kubeRouter,
	"kubectl":                 kubectl,
	"helm":                    helm,
}

// component runs a Kubernetes server command the way its own main function does.
func component(newCommand func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(newCommand())) }
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := programs[name]; !known && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	run, known := programs[name]
	if !known {
		names := make([]string, 0, len(programs))
		for program := range programs {
			names = append(names, program)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "usage: hyperkube %s [arguments]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	run()
}
