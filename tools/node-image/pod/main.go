// pod is the only program of the lab's container image. Without arguments it is the pause of a Pod.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "echo" {
		fmt.Println(strings.Join(os.Args[2:], " "))
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	for i := 0; ; i++ {
		if len(os.Args) > 1 && os.Args[1] == "tick" {
			fmt.Println("tick", i)
		}
		select {
		case <-ended:
			return
		case <-time.After(time.Second):
		}
	}
}
