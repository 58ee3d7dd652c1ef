// Kubernetes' own suite for storage drivers, "External Storage", without the rest of its end-to-end tests:
// one program that compiles in a fraction of the time. The driver under test is what --storage.testdriver names. The specs of storage
// that need no driver's description are there too, for those of volumes' statistics.
package external

import (
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	testing_manifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	// Registers the suite.
	_ "k8s.io/kubernetes/test/e2e/storage/external"

	// The specs of statistics, which run with the provider of two clouds only. This one does nothing.
	_ "k8s.io/kubernetes/test/e2e/framework/providers/aws"
	_ "k8s.io/kubernetes/test/e2e/storage"

	// How the framework looks at nodes and at what failed.
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(testing_manifests.GetE2ETestingManifestsFS())
	// What the driver's description names lies beside it.
	testfiles.AddFileSource(testfiles.RootFileSource{Root: "."})
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestExternalStorage(t *testing.T) {
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	ginkgo.RunSpecs(t, "External Storage", suite, reporter)
}
