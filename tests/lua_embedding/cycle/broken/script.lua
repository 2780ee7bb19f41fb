-- include: common/a
return 1
