module redlatch/benchmarks/peers/contender

go 1.26.0
