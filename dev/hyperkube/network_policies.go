package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/cloudnativelabs/kube-router/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/pkg/options"
	"github.com/spf13/pflag"
	networking "k8s.io/api/networking/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// kubeRouter is kube-router with its controller of network policies alone. The
// controllers of routes and services are most of its code, and one node needs
// neither.
func kubeRouter() {
	config := options.NewKubeRouterConfig()
	flags := pflag.NewFlagSet("kube-router", pflag.ExitOnError)
	config.AddFlags(flags)
	_ = flags.Parse(os.Args[1:]) // ends the program itself
	if err := enforceNetworkPolicies(config); err != nil {
		klog.ErrorS(err, "kube-router ended")
		os.Exit(1)
	}
}

func enforceNetworkPolicies(config *options.KubeRouterConfig) error {
	clientConfig, err := clientcmd.BuildConfigFromFlags(config.Master, config.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(clientConfig)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	if err := policies.SetTransform(withoutIPv6); err != nil {
		return err
	}
	controller, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &sync.Mutex{})
	if err != nil {
		return err
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods:       controller.PodEventHandler,
		policies:   controller.NetworkPolicyEventHandler,
		namespaces: controller.NamespaceEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	never := make(chan struct{})
	factory.Start(never)
	for kind, synced := range factory.WaitForCacheSync(never) {
		if !synced {
			return fmt.Errorf("no list of %v", kind)
		}
	}
	heartbeats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range heartbeats { // the controller waits until each is read
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(heartbeats, never, &running)
	return nil
}

// withoutIPv6 removes the IPv6 blocks of a policy. The cluster has IPv4 addresses
// alone, and an IPv6 block ends every synchronisation of this release.
func withoutIPv6(object any) (any, error) {
	policy, ok := object.(*networking.NetworkPolicy)
	if !ok {
		return object, nil
	}
	isIPv6 := func(peer networking.NetworkPolicyPeer) bool {
		return peer.IPBlock != nil && strings.Contains(peer.IPBlock.CIDR, ":")
	}
	// A rule without peers would admit every address.
	policy.Spec.Ingress = slices.DeleteFunc(policy.Spec.Ingress, func(rule networking.NetworkPolicyIngressRule) bool {
		return len(rule.From) > 0 && !slices.ContainsFunc(rule.From, not(isIPv6))
	})
	policy.Spec.Egress = slices.DeleteFunc(policy.Spec.Egress, func(rule networking.NetworkPolicyEgressRule) bool {
		return len(rule.To) > 0 && !slices.ContainsFunc(rule.To, not(isIPv6))
	})
	for i := range policy.Spec.Ingress {
		policy.Spec.Ingress[i].From = slices.DeleteFunc(policy.Spec.Ingress[i].From, isIPv6)
	}
	for i := range policy.Spec.Egress {
		policy.Spec.Egress[i].To = slices.DeleteFunc(policy.Spec.Egress[i].To, isIPv6)
	}
	return policy, nil
}

func not[T any](is func(T) bool) func(T) bool {
	return func(value T) bool { return !is(value) }
}
