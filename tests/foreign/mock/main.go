// Command mock serves Kubernetes' mock driver, with everything that it can do, on a unix socket.
package main

import (
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/driver"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatalf("usage: %s unix://SOCKET", os.Args[0])
	}
	socket := strings.TrimPrefix(os.Args[1], "unix://")
	// One that panicked has left its socket.
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	mock := service.New(service.Config{
		DriverName:           "mock.csi.test",
		PermissiveTargetPath: true,
		IO:                   service.OSDirIO{},
	})
	servers := &driver.CSIDriverServers{Controller: mock, Identity: mock, Node: mock}
	if err := driver.NewCSIDriver(servers).Start(listener, nil); err != nil {
		log.Fatal(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}
