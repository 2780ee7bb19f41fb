// rueidislock in the comparison: one server, so that a majority is one key, and NoLoopTracking, as its
// documents recommend for servers from 7.0.5 on.
//
// A try that takes longer than TryNextAfter, 20 ms by default, is given up, and then waited for though
// nothing may come: where many processes start at once some of them hang. So it is a second here, and
// each wait 5 s, after which it is made again.
package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"redlatch/benchmarks/peers/contender"
)

type lock struct {
	locker  rueidislock.Locker
	name    string
	holds   bool // for longer than a wait may take
	release context.CancelFunc
	over    context.CancelFunc
}

func (l *lock) Lock() bool {
	ctx := context.Background()
	l.over = func() {}
	if !l.holds {
		ctx, l.over = context.WithTimeout(ctx, 5*time.Second)
	}
	var err error
	_, l.release, err = l.locker.WithContext(ctx, l.name)
	if err != nil {
		l.over()
	}
	return err == nil
}

func (l *lock) Unlock() bool {
	l.release()
	l.over()
	return true
}

func main() {
	c := contender.New()
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{strings.TrimPrefix(c.Urls[0], "redis://")}},
		KeyValidity:    time.Duration(c.Number("lease-ms", 30000)) * time.Millisecond,
		KeyMajority:    1,
		NoLoopTracking: true,
		TryNextAfter:   time.Second,
	})
	contender.Check(err)
	holds := c.Text("work", "") == "hold"
	c.Run(func(name string) contender.Lock { return &lock{locker: locker, name: name, holds: holds} })
}
