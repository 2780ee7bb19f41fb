// Package contender is one process of the comparison: see ../../contender.h for what it is told and
// says.
package contender

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const mostSamples = 4000

// Lock is one thread's. Each call says whether it has succeeded; Lock is called again if not.
type Lock interface {
	Lock() bool
	Unlock() bool
}

type shared struct {
	inside     int32
	_          int32
	releasedAt int64
	releasedBy int32
}

// Contender is what the command line says.
type Contender struct {
	Urls    []string
	options map[string]string
	shared  *shared
}

// Check ends the process with what went wrong.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// New reads the command line.
func New() *Contender {
	c := &Contender{options: map[string]string{}}
	for _, word := range os.Args[1:] {
		name, value, found := strings.Cut(word, "=")
		if strings.HasPrefix(word, "--") && found {
			c.options[name[2:]] = value
		} else {
			c.Urls = append(c.Urls, word)
		}
	}
	file, err := os.OpenFile(c.options["shared"], os.O_RDWR, 0)
	Check(err)
	memory, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	Check(err)
	c.shared = (*shared)(unsafe.Pointer(&memory[0]))
	return c
}

// Text is the value of an option.
func (c *Contender) Text(name, fallback string) string {
	if text, found := c.options[name]; found {
		return text
	}
	return fallback
}

// Number is the value of an option.
func (c *Contender) Number(name string, fallback int) int {
	if text, found := c.options[name]; found {
		number, err := strconv.Atoi(text)
		Check(err)
		return number
	}
	return fallback
}

type tally struct {
	count, failed, overlaps int
	longestWait             time.Duration
	samples                 []float64
}

func monotonic() int64 {
	var at syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	Check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func awaitStart() {
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	Check(err)
}

func pairs(lock Lock, end time.Time) (sum tally) {
	next := 0
	for begun := time.Now(); begun.Before(end); {
		if lock.Lock() {
			sum.count++
			if !lock.Unlock() {
				sum.failed++
			}
		} else {
			sum.failed++
		}
		now := time.Now()
		took := float64(now.Sub(begun)) / 1e3
		if len(sum.samples) < mostSamples {
			sum.samples = append(sum.samples, took)
		} else {
			sum.samples[next] = took
			next = (next + 1) % mostSamples
		}
		begun = now
	}
	return sum
}

func (c *Contender) contend(lock Lock, end time.Time) (sum tally) {
	section := time.Duration(c.Number("section-us", 0)) * time.Microsecond
	me := int32(c.Number("index", 0) + 1)
	turns := c.Number("turns", 0) != 0
	for running := true; running; {
		asked := time.Now()
		held := lock.Lock()
		for !held && time.Now().Before(end) {
			sum.failed++
			held = lock.Lock()
		}
		if !held {
			break
		}
		now := time.Now()
		if by := atomic.LoadInt32(&c.shared.releasedBy); by != 0 && by != me &&
			len(sum.samples) < mostSamples {
			sum.samples = append(sum.samples,
				float64(monotonic()-atomic.LoadInt64(&c.shared.releasedAt))/1e3)
		}
		sum.longestWait = max(sum.longestWait, min(now.Sub(asked), end.Sub(asked)))
		if running = now.Before(end); running {
			sum.count++
		}
		if atomic.SwapInt32(&c.shared.inside, 1) != 0 {
			sum.overlaps++
		}
		if section > 0 {
			time.Sleep(section)
		}
		atomic.StoreInt32(&c.shared.inside, 0)
		atomic.StoreInt32(&c.shared.releasedBy, me)
		atomic.StoreInt64(&c.shared.releasedAt, monotonic())
		if !lock.Unlock() {
			sum.failed++
		}
		for turns && atomic.LoadInt32(&c.shared.inside) == 0 && time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
	}
	return sum
}

func report(tallies []tally, cpu float64) {
	counts, samples := []int{}, []float64{}
	var failed, overlaps int
	var longest time.Duration
	each := max(1, mostSamples/len(tallies))
	for _, one := range tallies {
		counts = append(counts, one.count)
		failed += one.failed
		overlaps += one.overlaps
		longest = max(longest, one.longestWait)
		samples = append(samples, one.samples[:min(each, len(one.samples))]...)
	}
	Check(json.NewEncoder(os.Stdout).Encode(map[string]any{"counts": counts, "failed": failed,
		"overlaps": overlaps, "longest_wait_ms": float64(longest) / 1e6, "cpu_s": cpu,
		"samples_us": samples}))
}

func (c *Contender) hold(newLock func(name string) Lock) {
	count := c.Number("locks", 1)
	for i := range count {
		name := "contended"
		if count > 1 {
			name = fmt.Sprint("held:", i)
		}
		for lock := newLock(name); !lock.Lock(); {
		}
	}
	cpu := cpuSeconds()
	awaitStart()
	report([]tally{{count: count}}, cpuSeconds()-cpu)
}

// Run does the work, with locks that newLock makes.
func (c *Contender) Run(newLock func(name string) Lock) {
	work := c.options["work"]
	if work == "hold" {
		c.hold(newLock)
		return
	}
	threads := c.Number("threads", 1)
	locks := make([]Lock, threads)
	for i := range locks {
		locks[i] = newLock(fmt.Sprint("own:", i, ":", c.Number("index", 0)))
		if locks[i].Lock() { // what the first use costs is no part of it
			locks[i].Unlock()
		}
		if work != "pair" {
			locks[i] = newLock("contended")
		}
	}
	awaitStart()
	cpu := cpuSeconds()
	seconds, err := strconv.ParseFloat(c.options["seconds"], 64)
	Check(err)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	tallies := make([]tally, threads)
	var running sync.WaitGroup
	for i := range locks {
		running.Go(func() {
			if work == "pair" {
				tallies[i] = pairs(locks[i], end)
			} else {
				tallies[i] = c.contend(locks[i], end)
			}
		})
	}
	running.Wait()
	report(tallies, cpuSeconds()-cpu)
}
