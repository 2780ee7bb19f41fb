// redsync in the comparison, with its defaults: 32 tries, 50 to 250 ms apart, and a majority of the
// servers of which it waits for all. --retry-delay-us=N, --jitter=1 and --fail-fast=1 change that.
package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"redlatch/benchmarks/peers/contender"
)

type lock struct{ mutex *redsync.Mutex }

func (l lock) Lock() bool { return l.mutex.Lock() == nil }
func (l lock) Unlock() bool {
	ok, err := l.mutex.Unlock()
	return ok && err == nil
}

func main() {
	c := contender.New()
	var pools []rsredis.Pool
	for _, url := range c.Urls {
		options, err := redis.ParseURL(url)
		contender.Check(err)
		options.PoolSize = max(10, c.Number("threads", 1))
		client := redis.NewClient(options)
		contender.Check(client.Ping(context.Background()).Err())
		pools = append(pools, goredis.NewPool(client))
	}
	options := []redsync.Option{
		redsync.WithExpiry(time.Duration(c.Number("lease-ms", 30000)) * time.Millisecond),
		redsync.WithFailFast(c.Number("fail-fast", 0) != 0)}
	delay := time.Duration(c.Number("retry-delay-us", 0)) * time.Microsecond
	if delay > 0 && c.Number("jitter", 0) != 0 {
		options = append(options, redsync.WithRetryDelayFunc(func(int) time.Duration {
			return rand.N(2 * delay)
		}))
	} else if delay > 0 {
		options = append(options, redsync.WithRetryDelay(delay))
	}
	maker := redsync.New(pools...)
	c.Run(func(name string) contender.Lock { return lock{maker.NewMutex(name, options...)} })
}
