// One process of a race of ../run.py, on redsync: see ../contender.h for what it is told and says.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The word that tells whether some process is inside.
func mapSection(path string) *uint32 {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	check(err)
	memory, err := syscall.Mmap(int(file.Fd()), 0, 4, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	check(err)
	return (*uint32)(unsafe.Pointer(&memory[0]))
}

func connect(urls []string) []rsredis.Pool {
	var pools []rsredis.Pool
	for _, url := range urls {
		options, err := redis.ParseURL(url)
		check(err)
		client := redis.NewClient(options)
		check(client.Ping(context.Background()).Err())
		pools = append(pools, goredis.NewPool(client))
	}
	return pools
}

type result struct {
	Count         int     `json:"count"`
	Failed        int     `json:"failed"`
	Overlaps      int     `json:"overlaps"`
	LongestWaitMs float64 `json:"longest_wait_ms"`
}

func race(mutex *redsync.Mutex, duration time.Duration, inside *uint32) (sum result) {
	end := time.Now().Add(duration)
	var longest time.Duration
	for running := true; running; {
		asked := time.Now()
		// It gives up after some tries. That ends no wait.
		for mutex.Lock() != nil {
			sum.Failed++
			if !time.Now().Before(end) {
				running = false
				break
			}
		}
		now := time.Now()
		longest = max(longest, now.Sub(asked))
		if !running {
			break
		}
		if !atomic.CompareAndSwapUint32(inside, 0, 1) {
			sum.Overlaps++
		}
		if running = now.Before(end); running {
			sum.Count++
		}
		atomic.StoreUint32(inside, 0)
		if ok, err := mutex.Unlock(); !ok || err != nil {
			sum.Failed++
		}
	}
	sum.LongestWaitMs = float64(longest) / float64(time.Millisecond)
	return sum
}

func main() {
	microseconds := flag.Int("retry-delay-us", 0, "between two tries; 0: redsync's own")
	jitter := flag.Bool("jitter", false, "a random delay of up to twice the retry delay")
	failFast := flag.Bool("fail-fast", false, "wait for a majority of the servers only")
	flag.Parse()
	delay := time.Duration(*microseconds) * time.Microsecond
	seconds, err := strconv.ParseFloat(flag.Arg(0), 64)
	check(err)
	inside := mapSection(flag.Arg(1))

	options := []redsync.Option{redsync.WithFailFast(*failFast)}
	if *jitter {
		options = append(options, redsync.WithRetryDelayFunc(func(int) time.Duration {
			return rand.N(2 * delay)
		}))
	} else if delay > 0 {
		options = append(options, redsync.WithRetryDelay(delay))
	}
	mutex := redsync.New(connect(flag.Args()[2:])...).NewMutex("contended", options...)

	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(
		race(mutex, time.Duration(seconds*float64(time.Second)), inside)))
}
