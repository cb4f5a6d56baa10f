// An object store with the S3 protocol for tests, in memory.
package main

import (
	"flag"
	"log"
	"net/http"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	address := flag.String("address", "127.0.0.1:9000", "where to listen")
	bucket := flag.String("bucket", "state", "bucket that is there from the start")
	flag.Parse()
	backend := s3mem.New()
	if err := backend.CreateBucket(*bucket); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*address, gofakes3.New(backend).Server()))
}
