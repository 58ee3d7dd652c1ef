// Reads manifests as the oldest Kubernetes does that the chart is for: with the types of its own API, and without tolerance for a
// field that these do not have. Kinds of others (VolumeSnapshotClass, ServiceMonitor) are left out, and counted.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	known, others, wrong := 0, 0, 0
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
		for {
			document := make([]byte, len(text))
			length, err := documents.Read(document)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
				os.Exit(1)
			}
			_, _, err = decoder.Decode(document[:length], nil, nil)
			switch {
			case err == nil:
				known++
			case runtime.IsMissingKind(err):
				// A comment alone.
			case runtime.IsNotRegisteredError(err):
				others++
			default:
				fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
				wrong++
			}
		}
	}
	fmt.Printf("%d objects of this Kubernetes, %d of others, %d refused\n", known, others, wrong)
	if wrong > 0 || known == 0 {
		os.Exit(1)
	}
}
