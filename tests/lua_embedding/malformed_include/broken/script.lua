  --include: common/x
return 1
